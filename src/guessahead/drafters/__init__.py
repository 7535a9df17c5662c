"""Drafters: one file per method, all behind `base.Drafter`; `registry` knows them by name."""
