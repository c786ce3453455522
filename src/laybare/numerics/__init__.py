"""What every room stands on: levels of exactness, small linear algebra, types of arrays, threads of BLAS, progress bars."""
