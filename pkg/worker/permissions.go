package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/jobtrail/jobtrail/pkg/retrytopics"
)

// whichACLs ends what is said of missing permissions.
const whichACLs = "docs/operations.md lists the ACLs that a worker needs"

// needs are the operations that a worker must be allowed on a topic.
func needs(role retrytopics.Role) []kmsg.ACLOperation {
	switch role {
	case retrytopics.RoleEvidence, retrytopics.RoleRetry:
		return []kmsg.ACLOperation{kmsg.ACLOperationRead, kmsg.ACLOperationWrite, kmsg.ACLOperationDescribeConfigs}
	case retrytopics.RoleDLQ, retrytopics.RoleParked:
		return []kmsg.ACLOperation{kmsg.ACLOperationWrite, kmsg.ACLOperationDescribeConfigs}
	default:
		return []kmsg.ACLOperation{kmsg.ACLOperationRead, kmsg.ACLOperationDescribeConfigs}
	}
}

// permitted reports, all at once, what the brokers do not allow the worker. What
// does not show before it is tried is reported when it is: see denied.
func (w *Worker) permitted(ctx context.Context) error {
	var lacks []string
	req := kmsg.NewPtrMetadataRequest()
	req.IncludeTopicAuthorizedOperations = true
	roles := make(map[string]retrytopics.Role)
	for _, t := range w.topo.Topics(0) {
		roles[t.Name] = t.Role
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = new(t.Name)
		req.Topics = append(req.Topics, topic)
	}
	resp, err := req.RequestWith(ctx, w.control)
	if err != nil {
		return fmt.Errorf("asking the brokers what is allowed: %w", err)
	}
	for _, t := range resp.Topics {
		allowed := uint32(t.AuthorizedOperations)
		switch err := kerr.ErrorForCode(t.ErrorCode); {
		case t.Topic == nil || err != nil && !errors.Is(err, kerr.TopicAuthorizationFailed):
			continue
		case err != nil:
			allowed = 0
		case t.AuthorizedOperations <= 0: // the brokers do not tell
			continue
		}
		var missing []string
		for _, op := range needs(roles[*t.Topic]) {
			if allowed&(1<<op) == 0 {
				missing = append(missing, operation(op))
			}
		}
		if len(missing) > 0 {
			lacks = append(lacks, strings.Join(missing, ", ")+" on topic "+*t.Topic)
		}
	}
	slices.Sort(lacks)
	groups, txns := w.admin.FindGroupCoordinators(ctx, w.cfg.Group), w.admin.FindTxnCoordinators(ctx, w.producers[0].id)
	if errors.Is(groups.Error(), kerr.GroupAuthorizationFailed) {
		lacks = append(lacks, "Read, DescribeConfigs on group "+w.cfg.Group)
	}
	if errors.Is(txns.Error(), kerr.TransactionalIDAuthorizationFailed) {
		lacks = append(lacks, "Write on transactional ids that begin with "+w.cfg.Group+"/")
	}
	if len(lacks) > 0 {
		return fmt.Errorf("the Kafka user lacks %s: %s", strings.Join(lacks, "; "), whichACLs)
	}
	return nil
}

// operation is the name of op as kafka-acls.sh prints it, without capitals
// throughout and underscores.
func operation(op kmsg.ACLOperation) string {
	if op == kmsg.ACLOperationDescribeConfigs {
		return "DescribeConfigs"
	}
	name := strings.ToLower(op.String())
	return strings.ToUpper(name[:1]) + name[1:]
}

// denied adds to an error of the brokers about permissions which one is missing.
func denied(err error, operations, on string) error {
	if !isAny(err, []error{kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.TransactionalIDAuthorizationFailed, kerr.ClusterAuthorizationFailed}) {
		return err
	}
	return fmt.Errorf("the Kafka user lacks %s on %s (%s): %w", operations, on, whichACLs, err)
}
