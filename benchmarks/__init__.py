"""Measurements that are no part of the package; see README.md."""
