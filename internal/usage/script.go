package usage

import (
	"crypto/sha1" //nolint:gosec // Valkey names scripts so
	_ "embed"
	"encoding/hex"
	"errors"
	"net"
	"slices"
	"strings"

	"github.com/valkey-io/valkey-go"
)

//go:embed record.lua
var recordText string

//go:embed denials.lua
var denialsText string

//go:embed statelist.lua
var stateListText string

//go:embed routes.lua
var routesText string

var (
	recordScript    = newScript(recordText)
	denialsScript   = newScript(denialsText)
	stateListScript = newScript(stateListText)
	routesScript    = newScript(routesText)
)

type script struct{ text, sum string }

func newScript(text string) *script {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // as above
	return &script{text, hex.EncodeToString(sum[:])}
}

func isUnknownScript(err error) bool {
	var refusal *valkey.ValkeyError
	return errors.As(err, &refusal) && refusal.IsNoScript()
}

// Errors that come before anything is executed.
var unexecuted = []string{
	"MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "READONLY", "BUSY", "OOM", "NOAUTH",
	"MISCONF", "NOREPLICAS",
}

// notExecuted: the server surely did nothing.
func notExecuted(err error) bool {
	var refusal *valkey.ValkeyError
	if errors.As(err, &refusal) {
		word, _, _ := strings.Cut(refusal.Error(), " ")
		return slices.Contains(unexecuted, word)
	}
	var operation *net.OpError
	return errors.Is(err, valkey.ErrNoSlot) || errors.As(err, &operation) && operation.Op == "dial"
}
