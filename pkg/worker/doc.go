// Package worker runs job handlers and keeps durable evidence of every attempt:
// the ledger.
package worker
