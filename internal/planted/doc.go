// Package planted makes, for tests, texts that hold what must not be written
// down: secrets and personal data of every class, built at run time so that no
// file holds one. It imports nothing of the module, so that the sanitiser's own
// tests can use it.
package planted
