package operate

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
)

// denied adds to an error of the brokers about permissions which operations on
// what are missing.
func denied(err error, operations, on string) error {
	for _, e := range []error{kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.TransactionalIDAuthorizationFailed, kerr.ClusterAuthorizationFailed} {
		if errors.Is(err, e) {
			return fmt.Errorf("the Kafka user lacks %s on %s (docs/operations.md lists the ACLs): %w", operations, on, err)
		}
	}
	return err
}
