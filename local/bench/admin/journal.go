//go:build unix

package admin

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/audit"
	"tidegate/internal/journal"
	"tidegate/internal/store/keyspace"
)

// useJournal has measure start the admin function with a journal too. The journal first
// gets a checkpoint and an entry of each bucket, since a start asks about all of them.
func (s *starter) useJournal(ctx context.Context, client valkey.Client, address string) error {
	kept, err := journal.OpenStore(address)
	if err != nil {
		return err
	}
	key := audit.NewKey(apikey.Pepper(pepper))
	log := audit.NewLog(client, key)
	log.UseJournal(journal.New(kept, client, key, false, slog.New(slog.DiscardHandler)))
	filled := map[keyspace.Bucket]bool{}
	for i := 0; len(filled) < keyspace.Buckets; i++ {
		subject := fmt.Sprint("subject", i)
		if b := keyspace.BucketOf(subject); filled[b] {
			continue
		}
		err := log.Append(ctx, audit.Entry{
			By: audit.Actor{Kind: "system", Name: "bench"}, Action: audit.KeyReset, Subject: subject})
		if err != nil {
			return fmt.Errorf("fill the journal: %w", err)
		}
		filled[keyspace.BucketOf(subject)] = true
	}
	with := s.admin
	with.Env = append(slices.Clone(with.Env), "JOURNAL="+address)
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"} {
		with.Env = append(with.Env, name+"="+os.Getenv(name))
	}
	s.journalled = &with
	return nil
}
