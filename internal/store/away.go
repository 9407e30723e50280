package store

import (
	"errors"
	"strings"

	"github.com/valkey-io/valkey-go"
)

// Away reports whether an error means that Valkey cannot serve such calls now. It was not
// reached, did not answer in time, or refused because of its own state or our rights. An
// answer that the call itself is wrong does not count.
func Away(err error) bool {
	if err == nil {
		return false
	}
	var refusal *valkey.ValkeyError
	if !errors.As(err, &refusal) {
		return true
	}
	if refusal.IsNil() {
		return false
	}
	code, _, _ := strings.Cut(refusal.Error(), " ") // the library leaves out ERR
	return code == strings.ToUpper(code) && code != "WRONGTYPE" && code != "NOSCRIPT"
}
