//go:build unix

package attacks

import (
	"fmt"
	"strings"
	"testing"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/testing/storetest"
)

// configuration has keys that the check function's user must not change.
var configuration = []string{"tg:{slot}:id:c", "tg:{slot}:p", "tg:{slot}:policy:c", "tg:{slot}:a",
	"tg:{slot}:ah", "tg:keys"}

// secretNames has keys with secrets, which the check function's user must not read.
var secretNames = []string{"tg:session:e3b0c44298fc", "tg:{tokens}:records", "tg:login:account:1", "another"}

// writes are commands that change KEY.
var writes = []string{
	"SET KEY 1", "SETNX KEY 1", "GETSET KEY 1", "GETDEL KEY", "APPEND KEY 1", "SETRANGE KEY 0 1",
	"SETBIT KEY 0 1", "INCR KEY", "INCRBY KEY 1",
	"DEL KEY", "UNLINK KEY", "EXPIRE KEY 1", "PEXPIREAT KEY 1", "PERSIST KEY", "RENAME KEY KEY2",
	"COPY KEY2 KEY REPLACE", "RESTORE KEY 0 x",
	"HSET KEY a 1", "HDEL KEY a", "ZADD KEY 0 1", "ZREM KEY 1", "SADD KEY 1", "LPUSH KEY 1", "XADD KEY * a 1",
	"XTRIM KEY MAXLEN 0", "XDEL KEY 0-1",
	"PFADD KEY 1", "GEOADD KEY 0 0 a", "SORT KEY STORE KEY", "BITOP NOT KEY KEY2",
}

// reads are commands that show KEY.
var reads = []string{"GET KEY", "HGETALL KEY", "ZRANGE KEY 0 -1", "SMEMBERS KEY", "LRANGE KEY 0 -1",
	"XRANGE KEY - +", "DUMP KEY", "OBJECT ENCODING KEY"}

// administration has commands that neither user may run.
var administration = []string{
	"FLUSHALL", "FLUSHDB", "SWAPDB 0 1", "KEYS *", "SCAN 0", "RANDOMKEY", "DBSIZE", "CONFIG GET *",
	"CONFIG SET maxmemory 1mb", "CONFIG REWRITE",
	"DEBUG SLEEP 0", "SCRIPT FLUSH", "SCRIPT KILL", "FUNCTION LOAD x", "FUNCTION FLUSH", "FUNCTION LIST",
	"FCALL x 0", "ACL LIST", "ACL GETUSER check",
	"ACL SETUSER check ~* +@all", "ACL SAVE", "CLIENT LIST", "CLIENT KILL TYPE normal", "CLIENT PAUSE 1",
	"MONITOR", "INFO", "REPLICAOF 127.0.0.1 1",
	"CLUSTER RESET", "CLUSTER FAILOVER", "MODULE LIST", "MODULE LOAD x", "SHUTDOWN NOSAVE",
	"MIGRATE 127.0.0.1 1 a 0 1", "SAVE", "BGSAVE",
	"BGREWRITEAOF", "LATENCY RESET", "SLOWLOG GET", "MEMORY DOCTOR", "PUBLISH a b",
	"BLPOP tg:a 1", "WAIT 0 1",
	"PSYNC ? -1", "FAILOVER",
}

// The user of each function is refused whatever the function does not need, as a command
// and in a script.
func TestAttackValkeyUsers(t *testing.T) {
	a, i := attack(t, "the functions' Valkey users",
		"as check and as admin: writes to configuration, reads of sessions, tokens and log-ins, "+
			"administration, each as a command and inside a script")
	users := map[string]valkey.Client{}
	for user, url := range i.users {
		c := storetest.Connect(t, url)
		users[user] = c
	}
	refused := func(user string, words []string) {
		t.Helper()
		a.probe()
		c := users[user]
		err := c.Do(t.Context(), c.B().Arbitrary(words...).Build()).Error()
		for _, refusal := range []string{"NOPERM", "ACL failure", "not allowed"} {
			if err != nil && strings.Contains(err.Error(), refusal) {
				return
			}
		}
		t.Errorf("%s, %q: %v", user, words, err)
	}
	both := func(user, command, key string) {
		words := strings.Fields(strings.NewReplacer("KEY2", "tg:{slot}:id:s", "KEY", key).Replace(command))
		refused(user, words)
		script := "return redis.call('" + strings.Join(words, "','") + "')"
		refused(user, []string{"EVAL", script, "1", "tg:{slot}:id:s"})
	}
	for _, key := range append(configuration, secretNames...) {
		for _, command := range writes {
			both("check", command, key)
		}
	}
	for _, key := range secretNames {
		for _, command := range reads {
			both("check", command, key)
		}
	}
	for _, command := range append(writes, reads...) {
		both("admin", command, "another")
	}
	for user := range users {
		for _, command := range administration {
			refused(user, strings.Fields(command))
			refused(user, []string{"EVAL",
				fmt.Sprintf("return redis.call('%s')", strings.Join(strings.Fields(command), "','")), "0"})
		}
	}
}
