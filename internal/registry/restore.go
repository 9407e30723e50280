package registry

import (
	"context"
	"fmt"
	"strings"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/usage/statelist"
)

// idsPerRead is how many members of a list EachID reads at once.
const idsPerRead = 5_000

// EachID calls yield with the id of every listed key.
func EachID(ctx context.Context, client valkey.Client, yield func(id string)) error {
	from := "-"
	for {
		read := client.B().Zrangebylex().Key(indexKey).Min(from).Max("+").Limit(0, idsPerRead).Build()
		members, err := client.Do(ctx, read).AsStrSlice()
		if err != nil {
			return fmt.Errorf("policy: list keys: %w", err)
		}
		for _, m := range members {
			yield(memberID(m))
		}
		if len(members) < idsPerRead {
			return nil
		}
		from = "(" + members[len(members)-1]
	}
}

// AddToLists adds keys, by their ids and records, to the lists that they belong in. Those
// that cannot be read join the list of all keys, so that they are found.
func (s *Store) AddToLists(ctx context.Context, records map[string][]byte) error {
	members := map[string][]string{} // by list
	var commands valkey.Commands
	for id, record := range records {
		k, _, err := policyset.DecodeRecord(id, record)
		if err != nil {
			k = policy.Key{ID: id, Name: strings.ToLower(id)}
		}
		if k.Banned.After(s.Now()) {
			commands = append(commands, statelist.Add(s.client, statelist.Banned, id, k.Banned)...)
		}
		for _, list := range lists(k) {
			members[list] = append(members[list], indexMember(k))
		}
		if k.Group != "" {
			members[groupsKey] = append(members[groupsKey], groupMember(k.Group))
		}
	}
	for list, in := range members {
		add := s.client.B().Zadd().Key(list).ScoreMember()
		for _, m := range in {
			add = add.ScoreMember(0, m)
		}
		commands = append(commands, add.Build())
	}
	if len(commands) == 0 {
		return nil
	}
	for _, result := range s.client.DoMulti(ctx, commands...) {
		if err := result.Error(); err != nil {
			return fmt.Errorf("policy: list keys: %w", err)
		}
	}
	return nil
}
