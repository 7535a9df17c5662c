"""The engine beside transformers. These tests need torch; leave the folder out where there is none."""
