//go:build !unprotected

package worker

import "github.com/twmb/franz-go/pkg/kgo"

// breach is where the ledger meets the world and a protection could be taken
// out. Nothing is, here: this compiles to nothing. A program built with the tag
// unprotected can lack one protection at a time: the tests show with it that
// each one is needed.
type breach struct{}

func newBreach() (breach, error) { return breach{}, nil }

func (breach) recovered(*ledger, *recovered)                 {}
func (breach) deciding(*ledger)                              {}
func (breach) resolved(happened bool) bool                   { return happened }
func (breach) hasty() bool                                   { return false }
func (breach) unfenced() bool                                { return false }
func (breach) flowing(*map[string][]int32)                   {}
func (breach) restored(at map[string]int64) map[string]int64 { return at }
func (breach) sought(from, _ int64) int64                    { return from }
func (breach) producing(list []*kgo.Record) []*kgo.Record    { return list }
func (breach) stubborn() bool                                { return false }
func (breach) blind() bool                                   { return false }
func (breach) picky() bool                                   { return false }
