// Package clickhouse holds the evidence store's schema and questions: the
// migrations, the queries (one question a file) and the users' roles.
//
// A store is three databases. Two generations, <name>_a and <name>_b, have all
// tables each; one of them is live and is what the projector fills. The
// database <name> itself holds the pointer to the live generation, the erasure
// requests, and views of the same names as the live generation's tables and
// views, so that readers never name a generation. A rebuild fills the other
// generation and turns the pointer.
package clickhouse
