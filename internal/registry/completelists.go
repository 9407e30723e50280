package registry

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/policy"
)

// addedLists names those of lists that earlier releases do not keep.
func addedLists(k policy.Key) []string {
	var in []string
	if k.Override != nil && deniesNothing(k.Override.Mode) {
		in = append(in, Shadowed.index())
	}
	if k.Status == policy.Revoked {
		in = append(in, Revoked.index())
	}
	if !k.Expires.IsZero() {
		in = append(in, Expiring.index())
	}
	for _, tag := range k.Tags {
		in = append(in, tagIndexKey(tag))
	}
	return in
}

// completeKey says how complete addedLists are: the Unix time at which they were last
// complete, 0 for never, a space, and the member of the list of all keys up to which they
// are being completed again. A release that adds lists raises the number in the name,
// because the release before completes fewer.
const completeKey = indexKey + ":complete:2"

// completeFor is how long lists count as complete: a release that does not keep them may
// have edited keys since.
const completeFor = 24 * time.Hour

// keysPerStep is how many keys CompleteLists reads at once.
const keysPerStep = 500

// CompleteLists adds keys that an earlier release wrote to the lists that it did not
// keep, for at most so long, and goes on where the last call ended. It reports whether
// the lists have ever been complete.
func (s *Store) CompleteLists(ctx context.Context, atMost time.Duration) (bool, error) {
	text, err := s.client.Do(ctx, s.client.B().Get().Key(completeKey).Build()).ToString()
	if err != nil && !valkey.IsValkeyNil(err) {
		return false, fmt.Errorf("registry: complete lists: %w", err)
	}
	seconds, cursor, _ := strings.Cut(text, " ")
	since, _ := strconv.ParseInt(seconds, 10, 64) // 0 for what is no number
	if s.Now().Sub(time.Unix(since, 0)) < completeFor {
		return true, nil
	}
	from := cursor
	for began := time.Now(); ; {
		if from, err = s.completeStep(ctx, from); err != nil {
			return since > 0, err
		}
		if from == "" {
			since = s.Now().Unix()
		}
		if from == "" || time.Since(began) >= atMost {
			break
		}
	}
	set := s.client.B().Set().Key(completeKey).Value(strconv.FormatInt(since, 10) + " " + from).Build()
	if err := s.client.Do(ctx, set).Error(); err != nil {
		return since > 0, fmt.Errorf("registry: complete lists: %w", err)
	}
	return since > 0, nil
}

// completeStep adds the keys behind a member of the list of all keys to their lists, and
// returns the last member; empty at the end.
func (s *Store) completeStep(ctx context.Context, after string) (last string, err error) {
	from := "-"
	if after != "" {
		from = "(" + after
	}
	read := s.client.B().Zrangebylex().Key(indexKey).Min(from).Max("+").Limit(0, keysPerStep).Build()
	members, err := s.client.Do(ctx, read).AsStrSlice()
	if err != nil {
		return "", fmt.Errorf("registry: complete lists: %w", err)
	}
	keys, err := s.getAll(ctx, &policy.Set{}, members)
	if err != nil {
		return "", err
	}
	var commands valkey.Commands
	for i, k := range keys {
		if members[i] != indexMember(k) {
			continue
		}
		for _, list := range addedLists(k) {
			commands = append(commands,
				s.client.B().Zadd().Key(list).ScoreMember().ScoreMember(0, members[i]).Build())
		}
	}
	for _, result := range s.client.DoMulti(ctx, commands...) {
		if err := result.Error(); err != nil {
			return "", fmt.Errorf("registry: complete lists: %w", err)
		}
	}
	if len(members) < keysPerStep {
		return "", nil
	}
	return members[len(members)-1], nil
}
