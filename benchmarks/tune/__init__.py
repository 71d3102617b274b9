"""Searches that fill the tables of smallmm."""
