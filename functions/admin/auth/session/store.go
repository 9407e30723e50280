// Package session stores the dashboard's sessions in Valkey. Its Store is an scs store.
package session

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/valkey-io/valkey-go"
)

const prefix = "tg:session:"

// DeleteCtx replaces a session by ended for endedKept, so that a request in progress
// cannot save the session again.
const (
	ended     = ""
	endedKept = 5 * time.Minute
)

// save writes a session unless it was ended. KEYS[1] the session; ARGV[1] its value, not
// empty; ARGV[2] its time to live in milliseconds. Returns 1 if it was written, else 0.
var save = valkey.NewLuaScriptRetryable(`
if redis.call('GET', KEYS[1]) == '' then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`)

// Store is an scs store. It stores only the SHA-256 of a token, so a reader of Valkey
// cannot use a session.
//
// Store also ends idle sessions. For that, scs would rewrite a session on each request;
// FindCtx renews the time to live with the command that reads. A session ends after idle
// without a request, or at its expiry in scs, whichever is first. Automatic requests do
// not count: see Unattended.
//
// Every command is idempotent. The client repeats it when a connection was lost while the
// function was frozen. A Store is safe for concurrent use.
type Store struct {
	client valkey.Client
	idle   time.Duration
	now    func() time.Time
}

// NewStore returns a Store on the client. idle must be positive.
func NewStore(client valkey.Client, idle time.Duration) *Store {
	return &Store{client: client, idle: idle, now: time.Now}
}

type unattended struct{}

// Unattended marks the context of a page's automatic request, such as a live refresh. It
// does not renew the session's time to live.
func Unattended(ctx context.Context) context.Context {
	return context.WithValue(ctx, unattended{}, true)
}

// FindCtx returns the data of a session and renews its time to live. found is false if
// the session does not exist or has expired.
func (s *Store) FindCtx(ctx context.Context, token string) (data []byte, found bool, err error) {
	read := s.client.B().Getex().Key(keyOf(token)).PxMilliseconds(s.idle.Milliseconds()).Build()
	if ctx.Value(unattended{}) != nil {
		read = s.client.B().Get().Key(keyOf(token)).Build()
	}
	value, err := s.client.Do(ctx, read.ToRetryable()).AsBytes()
	if valkey.IsValkeyNil(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("find session: %w", err)
	}
	expiry, data, ok := decode(value)
	if !ok {
		return nil, false, nil
	}
	if !s.now().Before(expiry) {
		return nil, false, s.DeleteCtx(ctx, token)
	}
	return data, true, nil
}

// CommitCtx saves a session, unless it was deleted within endedKept.
func (s *Store) CommitCtx(ctx context.Context, token string, data []byte, expiry time.Time) error {
	life := min(s.idle, expiry.Sub(s.now()))
	if life < time.Millisecond {
		return s.DeleteCtx(ctx, token)
	}
	args := []string{string(encode(expiry, data)), fmt.Sprint(life.Milliseconds())}
	if err := save.Exec(ctx, s.client, []string{keyOf(token)}, args).Error(); err != nil {
		return fmt.Errorf("save session: %w", err)
	}
	return nil
}

// DeleteCtx ends a session. Ending one that does not exist is no error.
func (s *Store) DeleteCtx(ctx context.Context, token string) error {
	if err := s.client.Do(ctx, s.end(keyOf(token))).Error(); err != nil {
		return fmt.Errorf("end session: %w", err)
	}
	return nil
}

func (s *Store) end(key string) valkey.Completed {
	return s.client.B().Set().Key(key).Value(ended).PxMilliseconds(endedKept.Milliseconds()).
		Build().ToRetryable()
}

// Ping returns nil if Valkey answers.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.client.Do(ctx, s.client.B().Ping().Build().ToRetryable()).Error(); err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	return nil
}

// Find is FindCtx for callers without a context.
func (s *Store) Find(token string) ([]byte, bool, error) {
	return s.FindCtx(context.Background(), token)
}

// Commit is CommitCtx for callers without a context.
func (s *Store) Commit(token string, data []byte, expiry time.Time) error {
	return s.CommitCtx(context.Background(), token, data, expiry)
}

// Delete is DeleteCtx for callers without a context.
func (s *Store) Delete(token string) error { return s.DeleteCtx(context.Background(), token) }

func keyOf(token string) string { return prefix + ID(token) }

// A stored value is the expiry in Unix milliseconds, 8 bytes, then the data.
func encode(expiry time.Time, data []byte) []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(expiry.UnixMilli())), data...)
}

func decode(value []byte) (expiry time.Time, data []byte, ok bool) {
	if len(value) < 8 {
		return time.Time{}, nil, false
	}
	return time.UnixMilli(int64(binary.BigEndian.Uint64(value))), value[8:], true
}
