//go:build !unprotected

package worker

// breach is where the ledger meets the world and a protection could be taken
// out. Nothing is, here: this compiles to nothing. A program built with the tag
// unprotected can lack one protection at a time: the tests show with it that
// each one is needed.
type breach struct{}

func newBreach() (breach, error) { return breach{}, nil }

func (breach) recovered(*ledger, *recovered) {}
func (breach) deciding(*ledger)              {}
func (breach) resolved(happened bool) bool   { return happened }
func (breach) unfenced() bool                { return false }
func (breach) flowing(*map[string][]int32)   {}
