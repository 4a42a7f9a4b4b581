// Package evidence answers questions from the evidence store: what happened to
// an operation, to a job, to an attempt, and how complete the answer is.
//
// Reading is apart from judging: the store's rows of an operation or a job are
// folded into runs, flags, a verdict and a sentence by pure functions of those
// rows, so a row that is there twice, or in another order, changes no answer.
package evidence
