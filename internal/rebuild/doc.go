// Package rebuild makes a generation of the evidence store anew from the logs,
// beside the live one, and turns the store to it.
//
// In the order of the flow: claim the other generation (claim.go), empty it,
// copy what the logs no longer hold from the live one and fill the rest from
// the logs (fill.go), compare the two (compare.go, derived.go), turn the
// pointer and hand the filling over to the projectors (flip.go). How far a
// rebuild is stands in the store's table rebuilds and in the positions of the
// generation's consumer groups (state.go), so that one that was cut off at any
// point is continued by the next call.
//
// The projector that fills the live generation goes on all the time, and rows
// are written to the other one with the projector's own guarantee: exactly
// once.
package rebuild
