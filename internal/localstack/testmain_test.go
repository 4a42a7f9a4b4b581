package localstack_test

import (
	"testing"

	"github.com/jobtrail/jobtrail/internal/localstack/stacktest"
)

func TestMain(m *testing.M) { stacktest.Main(m) }
