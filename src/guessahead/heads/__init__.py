"""The files of draft heads: their format, and the look-up of a model's head.

files is the only module. The passes of a head are in each engine, its drafter is drafters/head.py, and its
training is in training.
"""
