//! Nothing of its own: the tests are in `e2e/`.
