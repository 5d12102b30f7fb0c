"""Authored files and settings, read once into frozen values."""
