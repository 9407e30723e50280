// Package session stores the dashboard's sessions in Valkey. Its Store is an scs store,
// which packages server and dashboard use. It must not know roles.
package session

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strconv"
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
	args := []string{string(encode(expiry, data)), strconv.FormatInt(life.Milliseconds(), 10)}
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

// usersPrefix is the prefix of a sorted set for each user with sessions. Members are
// session ids, scores their expiry in milliseconds.
const usersPrefix = "tg:sessions:"

// enroll adds a session to a user's set, removes expired ones, and lets the set expire
// with the last of them. KEYS[1] the set; ARGV[1] the id, ARGV[2] its expiry, ARGV[3]
// now, both in milliseconds.
var enroll = valkey.NewLuaScriptRetryable(`
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[3])
local last = redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')
if last[2] then redis.call('PEXPIREAT', KEYS[1], last[2]) end
return 1`)

// Session is a session that has not ended.
type Session struct {
	ID   string // identifies the session without giving access to it
	Data []byte // as scs encoded it
}

// The values of a session that describe the log-in.
const (
	Started = "started" // second of the Unix epoch
	Agent   = "agent"   // the browser and its system
)

// Own is a session as its user sees it.
type Own struct {
	Browser string    `json:"browser"`
	Started time.Time `json:"started"`
	Expires time.Time `json:"expires"`
	Current bool      `json:"current,omitempty" doc:"The session of this request"`
}

// ID returns the id of the session with this token.
func ID(token string) string { return digest(token) }

func keyOf(token string) string { return prefix + ID(token) }

func userKey(user string) string { return usersPrefix + digest(user) }

func digest(text string) string {
	hash := sha256.Sum256([]byte(text))
	return base64.RawURLEncoding.EncodeToString(hash[:])
}

// Enroll adds a session to the user's sessions until it expires. Call it before saving
// the session, so that EndAll misses none.
func (s *Store) Enroll(ctx context.Context, user, token string, expiry time.Time) error {
	args := []string{ID(token), milliseconds(expiry), milliseconds(s.now())}
	if err := enroll.Exec(ctx, s.client, []string{userKey(user)}, args).Error(); err != nil {
		return fmt.Errorf("enroll session: %w", err)
	}
	return nil
}

// List returns at most count of the user's sessions, the newest first. It does not renew
// them.
func (s *Store) List(ctx context.Context, user string, count int) ([]Session, error) {
	query := s.client.B().Zrevrangebyscore().Key(userKey(user)).Max("+inf").Min("("+
		milliseconds(s.now())).Limit(0, int64(count)).Build()
	ids, err := s.client.Do(ctx, query).AsStrSlice()
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	commands := make(valkey.Commands, len(ids))
	for i, id := range ids {
		commands[i] = s.client.B().Get().Key(prefix + id).Build()
	}
	var all []Session
	for i, reply := range s.client.DoMulti(ctx, commands...) {
		value, err := reply.AsBytes()
		if valkey.IsValkeyNil(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list sessions: %w", err)
		}
		if expiry, data, ok := decode(value); ok && s.now().Before(expiry) {
			all = append(all, Session{ID: ids[i], Data: data})
		}
	}
	return all, nil
}

// EndAll ends every session of the user that was enrolled before the call.
func (s *Store) EndAll(ctx context.Context, user string) error {
	ids, err := s.client.Do(ctx, s.client.B().Zrange().Key(userKey(user)).Min("0").Max(
		"-1").Build()).AsStrSlice()
	if err != nil {
		return fmt.Errorf("end sessions: %w", err)
	}
	if len(ids) == 0 {
		return nil
	}
	commands := make(valkey.Commands, len(ids), len(ids)+1)
	for i, id := range ids {
		commands[i] = s.end(prefix + id)
	}
	commands = append(commands, s.client.B().Zrem().Key(userKey(user)).Member(ids...).Build().ToRetryable())
	for _, reply := range s.client.DoMulti(ctx, commands...) {
		if err := reply.Error(); err != nil {
			return fmt.Errorf("end sessions: %w", err)
		}
	}
	return nil
}

func milliseconds(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) }
