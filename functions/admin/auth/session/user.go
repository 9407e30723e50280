package session

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"time"

	"github.com/valkey-io/valkey-go"
)

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

// ID returns the id of the session with this token.
func ID(token string) string {
	hash := sha256.Sum256([]byte(token))
	return base64.RawURLEncoding.EncodeToString(hash[:])
}

func userKey(user string) string {
	hash := sha256.Sum256([]byte(user))
	return usersPrefix + base64.RawURLEncoding.EncodeToString(hash[:])
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
