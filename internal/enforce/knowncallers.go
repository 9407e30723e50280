package enforce

import (
	"encoding/binary"
	"strconv"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"tidegate/internal/policy"
	"tidegate/internal/policyset"
)

// maxKnown bounds knownCallers to about 2 MB.
const maxKnown = 4096

// knownCallers remembers, for callers with an API key, what find.lua last said about
// their record and limits. The next check passes it along: while it holds, the script
// reads less and does not repeat it. The script compares it byte by byte with the record
// and the copy of the plans, so an edit acts on the next check. When it is full, the
// caller who has not called for longest is forgotten. It is safe for concurrent use.
type knownCallers struct {
	mu      sync.Mutex
	entries *simplelru.LRU[string, *knownCaller] // by subject
}

// knownCaller is what is known of a caller.
type knownCaller struct {
	version int64    // of the policy set
	hash    string   // of the secret
	public  []byte   // as in the reply of find.lua
	args    []string // ARGV[6] to ARGV[9] of find.lua
}

func newKnownCallers() *knownCallers {
	// fails for a size below 1 alone
	entries, _ := simplelru.NewLRU[string, *knownCaller](maxKnown, nil)
	return &knownCallers{entries: entries}
}

// find returns what is known of a caller under a policy set, or nil.
func (k *knownCallers) find(subject, hash string, version int64) *knownCaller {
	k.mu.Lock()
	defer k.mu.Unlock()
	known, found := k.entries.Get(subject)
	if !found || known.version != version || known.hash != hash {
		return nil
	}
	return known
}

// maxInstant is later than any time of the server, in microseconds.
const maxInstant = 1<<53 - 1

// learn remembers what a reply said about a caller. public has passed parsePublic. What a
// ban or an override says changes at an instant, so a caller with one is not remembered.
// The group is compared with the record too.
func (k *knownCallers) learn(subject, hash string, version int64, public []byte) {
	const times, overrideAt, nameAt = 4, 15, 13
	record := public[times+policyset.TimesLen:]
	end := policyset.PublicLen + int(binary.BigEndian.Uint16(record[nameAt:]))
	override := binary.BigEndian.Uint16(record[overrideAt:])
	group, entry, _ := groupIn(record[end], record[end+1:])
	expires, banned := policyset.TimeAt(public[times+7:]), policyset.TimeAt(public[times+14:])
	off := policyset.Modes[entry[0]-1] == policy.Off
	if hash == "" || override > 0 || !banned.IsZero() || off ||
		int64(binary.BigEndian.Uint32(public)) != version {
		return
	}
	until := int64(maxInstant)
	if !expires.IsZero() {
		until = expires.UnixMicro()
	}
	about := string(public[times : times+policyset.TimesLen+end])
	if group != "" {
		about += policyset.GroupText(group) // the description follows the name
	}
	head := string(append([]byte{policyset.CopyFormat}, public[:times]...))
	args := []string{about, string(entry[3:]), head, strconv.FormatInt(until, 10)}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.entries.Add(subject, &knownCaller{version: version, hash: hash, public: public, args: args})
}
