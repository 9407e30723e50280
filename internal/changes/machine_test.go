package changes

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"testing"

	lualib "github.com/yuin/gopher-lua"

	"tidegate/internal/lua"
)

var errAway = errors.New("away")

// data is what a shard has. The scripts run on it by the Lua of the embedded server.
type data struct {
	hashes  map[string]map[string]string
	sets    map[string]map[string]float64
	strings map[string]string
	expires map[string]int64 // milliseconds of virtual time
}

func newData() *data {
	return &data{map[string]map[string]string{}, map[string]map[string]float64{}, map[string]string{},
		map[string]int64{}}
}

func (d *data) clone() *data {
	c := newData()
	for k, v := range d.hashes {
		c.hashes[k] = maps.Clone(v)
	}
	for k, v := range d.sets {
		c.sets[k] = maps.Clone(v)
	}
	c.strings, c.expires = maps.Clone(d.strings), maps.Clone(d.expires)
	return c
}

func (d *data) del(key string) {
	delete(d.hashes, key)
	delete(d.sets, key)
	delete(d.strings, key)
	delete(d.expires, key)
}

func (d *data) rename(from, to string) bool {
	h, hash := d.hashes[from]
	z, set := d.sets[from]
	at, expires := d.expires[from]
	d.del(from)
	d.del(to)
	if hash {
		d.hashes[to] = h
	}
	if set {
		d.sets[to] = z
	}
	if expires {
		d.expires[to] = at
	}
	return hash || set
}

// machine runs scripts on data.
type machine struct {
	state   *lualib.LState
	scripts map[*lua.Script]*lualib.FunctionProto
	data    *data
	now     int64 // milliseconds
	wrote   bool
	purged  []string // what expired before the last run
}

func newMachine() *machine {
	m := &machine{state: lualib.NewState(), scripts: map[*lua.Script]*lualib.FunctionProto{}}
	table := m.state.NewTable()
	table.RawSetString("call", m.state.NewFunction(m.call))
	m.state.SetGlobal("redis", table)
	return m
}

// run runs a script as EVAL does. Its reply consists of texts.
func (m *machine) run(d *data, now int64, script *lua.Script, r lua.Run) ([]string, error) {
	m.data, m.now, m.wrote, m.purged = d, now, false, nil
	for key, at := range d.expires {
		if at <= now {
			m.purged = append(m.purged, key)
			d.del(key)
		}
	}
	proto := m.scripts[script]
	if proto == nil {
		f, err := m.state.LoadString(script.Text())
		if err != nil {
			return nil, err
		}
		proto = f.Proto
		m.scripts[script] = proto
	}
	m.state.SetGlobal("KEYS", m.list(r.Keys))
	m.state.SetGlobal("ARGV", m.list(r.Args))
	m.state.Push(m.state.NewFunctionFromProto(proto))
	if err := m.state.PCall(0, 1, nil); err != nil {
		return nil, err
	}
	reply := m.state.ToTable(-1)
	m.state.Pop(1)
	values := make([]string, 0, reply.Len())
	for i := 1; i <= reply.Len(); i++ {
		values = append(values, string(reply.RawGetInt(i).(lualib.LString)))
	}
	return values, nil
}

func (m *machine) list(values []string) *lualib.LTable {
	t := m.state.CreateTable(len(values), 0)
	for _, v := range values {
		t.Append(lualib.LString(v))
	}
	return t
}

// call is redis.call for the commands that the scripts use.
func (m *machine) call(s *lualib.LState) int {
	args := make([]string, s.GetTop())
	for i := range args {
		args[i] = s.ToString(i + 1)
	}
	key := args[1]
	d := m.data
	switch args[0] {
	case "HSET", "HDEL", "ZADD", "ZREM", "ZREMRANGEBYSCORE", "ZREMRANGEBYRANK", "SET", "DEL", "RENAME",
		"PERSIST", "PEXPIRE":
		m.wrote = true
		m.write(s, args)
		return 1
	case "HGET":
		if v, found := d.hashes[key][args[2]]; found {
			s.Push(lualib.LString(v))
		} else {
			s.Push(lualib.LFalse)
		}
	case "GET":
		if v, found := d.strings[key]; found {
			s.Push(lualib.LString(v))
		} else {
			s.Push(lualib.LFalse)
		}
	case "HLEN":
		s.Push(lualib.LNumber(len(d.hashes[key])))
	case "ZCARD":
		s.Push(lualib.LNumber(len(d.sets[key])))
	case "HGETALL":
		var all []string
		for _, field := range slices.Sorted(maps.Keys(d.hashes[key])) {
			all = append(all, field, d.hashes[key][field])
		}
		s.Push(m.list(all))
	case "ZLEXCOUNT":
		s.Push(lualib.LNumber(len(d.lex(key, args[2], args[3]))))
	case "ZRANGEBYLEX":
		found := d.lex(key, args[2], args[3])
		limit, _ := strconv.Atoi(args[6])
		s.Push(m.list(found[:min(len(found), limit)]))
	case "ZRANGEBYSCORE":
		s.Push(m.list(d.scores(key, args[2], args[3])))
	default:
		s.RaiseError("%s is unknown", args[0])
	}
	return 1
}

func (m *machine) write(s *lualib.LState, args []string) {
	d, key := m.data, args[1]
	var answer lualib.LValue = lualib.LNumber(1)
	switch args[0] {
	case "HSET":
		if d.hashes[key] == nil {
			d.hashes[key] = map[string]string{}
		}
		d.hashes[key][args[2]] = args[3]
	case "HDEL":
		delete(d.hashes[key], args[2])
		if len(d.hashes[key]) == 0 {
			d.del(key)
		}
	case "ZADD":
		if d.sets[key] == nil {
			d.sets[key] = map[string]float64{}
		}
		d.sets[key][args[3]], _ = strconv.ParseFloat(args[2], 64)
	case "ZREM":
		d.remove(key, args[2])
	case "ZREMRANGEBYSCORE":
		d.remove(key, d.scores(key, args[2], args[3])...)
	case "ZREMRANGEBYRANK":
		all := d.scores(key, "0", "1e300")
		last, _ := strconv.Atoi(args[3])
		d.remove(key, all[:max(0, len(all)+last+1)]...)
	case "SET": // NX PX
		answer = lualib.LFalse
		if _, found := d.strings[key]; !found {
			ms, _ := strconv.ParseInt(args[5], 10, 64)
			d.strings[key], d.expires[key] = args[2], m.now+ms
			answer = lualib.LString("OK")
		}
	case "DEL":
		for _, key := range args[1:] {
			d.del(key)
		}
	case "RENAME":
		if !d.rename(key, args[2]) {
			s.RaiseError("no such key")
		}
	case "PERSIST":
		delete(d.expires, key)
	case "PEXPIRE":
		if d.hashes[key] != nil || d.sets[key] != nil {
			ms, _ := strconv.ParseInt(args[2], 10, 64)
			d.expires[key] = m.now + ms
		}
	}
	s.Push(answer)
}

func (d *data) remove(key string, members ...string) {
	for _, member := range members {
		delete(d.sets[key], member)
	}
	if len(d.sets[key]) == 0 {
		d.del(key)
	}
}

func (d *data) lex(key, first, last string) (found []string) {
	for _, member := range slices.Sorted(maps.Keys(d.sets[key])) {
		if (member > first[1:] || member == first[1:] && first[0] == '[') && member <= last[1:] {
			found = append(found, member)
		}
	}
	return found
}

func (d *data) scores(key, first, last string) (found []string) {
	low, _ := strconv.ParseFloat(first, 64)
	high, _ := strconv.ParseFloat(last, 64)
	for _, member := range slices.Sorted(maps.Keys(d.sets[key])) {
		if score := d.sets[key][member]; score >= low && score <= high {
			found = append(found, member)
		}
	}
	slices.SortStableFunc(found, func(a, b string) int { return int(d.sets[key][a] - d.sets[key][b]) })
	return found
}

// The machine answers as the embedded server does where the scripts depend on it.
func TestMachine(t *testing.T) {
	m, d := newMachine(), newData()
	fill := lua.New(func() string {
		return `for i = 1, 5 do redis.call('ZADD', KEYS[1], i, 'm' .. i) end
			redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -4)
			return {tostring(redis.call('ZCARD', KEYS[1])), tostring(redis.call('ZLEXCOUNT', KEYS[1], '[m4', '[m9'))}`
	})
	got, err := m.run(d, 0, fill, lua.Run{Keys: []string{"k"}})
	if want := []string{"3", "2"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v %v, want %v", got, err, want)
	}
}
