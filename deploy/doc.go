// Package deploy is what is deployed beside the programs: the rules of Prometheus
// and the dashboard of Grafana. It has no code but the tests that hold both
// against the metrics, the questions asked of the store and the pages that
// explain them.
package deploy
