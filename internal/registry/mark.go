package registry

import (
	"strings"
	"time"

	"tidegate/internal/changes"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
)

// marked returns a key as a mark leaves it: revoked, or banned until the mark ends.
func marked(k policy.Key, m changes.Mark) policy.Key {
	ends := time.UnixMicro(m.Until).UTC()
	switch {
	case m.Until == 0:
		k.Status = policy.Revoked
	case ends.After(k.Banned):
		k.Banned = ends
	default:
		return k
	}
	k.Updated = m.Time.Truncate(time.Second)
	return k
}

// settle returns the content that a mark gives to a record. A machine token is deleted.
func settle(m changes.Mark, content []byte) []byte {
	if strings.HasPrefix(m.Record, tokenPrefix) {
		return nil
	}
	k, hashes, err := policyset.DecodeRecord(m.Record, 0, content)
	if err != nil { // no check passes it
		return content
	}
	after, err := policyset.EncodeRecord(marked(k, m), hashes)
	if err != nil {
		return content
	}
	return after
}
