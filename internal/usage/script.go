package usage

import (
	_ "embed" // the scripts
	"errors"
	"net"
	"slices"
	"strings"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/lua"
)

//go:embed record.lua
var recordText string

//go:embed denials.lua
var denialsText string

var (
	recordScript  = lua.New(func() string { return recordText })
	denialsScript = lua.New(func() string { return denialsText })
)

// Errors that come before anything is executed.
var unexecuted = []string{
	"NOSCRIPT", "MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "READONLY", "BUSY",
	"OOM", "NOAUTH", "MISCONF", "NOREPLICAS",
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
