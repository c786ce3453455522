"""The loop on one screen: source -> problem -> start -> search -> signs -> certificate."""
