package store

import (
	"errors"
	"strings"

	"github.com/valkey-io/valkey-go"
)

// Away reports whether an error of a call to Valkey means that it cannot serve calls like
// it now: it was not reached, did not answer in time, or refused for a reason that lies
// in its own state or in who we are to it. An answer that the call itself is wrong is
// none of these.
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

// Clustered reports whether a URL's hosts are nodes of a cluster.
func Clustered(rawURL string) bool {
	option, err := parse(rawURL)
	return err == nil && !option.ForceSingleClient
}
