package authorizer_test

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	_ = os.Setenv("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "20") // cannot fail: neither has an = or a NUL
	os.Exit(m.Run())
}
