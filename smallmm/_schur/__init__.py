"""Schur forms, and functions of general matrices that are computed by way of them."""
