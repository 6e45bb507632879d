"""Steps across a cut of the power: `scene` plays what was before it, the tests look at what is left in the next boot."""
