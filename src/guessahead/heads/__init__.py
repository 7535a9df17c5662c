"""The files of draft heads: format and look-up. The passes of a head are part of each engine."""
