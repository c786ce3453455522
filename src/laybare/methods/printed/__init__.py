"""The papers' own algorithms, one file per paper: what `literal` makes. No solver runs after them.

    zhong_2017       plain moments, the power method, KCL, RecMagSign, gradient descent (TensorInit)
    ge_lee_ma_2018   the objectives G and F, minimised from plain moments (LandscapeDesign)
    ge_2019          pure neurons by one pencil, or by CP and gradient descent (SymmetricInputs)
    awasthi_2021     units up to sign from two tensors, then signs or a regression (GeneralReLU)

The algorithms of Goel and Panigrahy (2019) are in `laybare.lowest_layer.printed`.
"""
