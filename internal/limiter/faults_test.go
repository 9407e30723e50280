package limiter

import (
	"fmt"
	"testing"

	"tidegate/internal/testing/tier"
)

// faults are mistakes in the scripts: a text and what replaces it. All but the first were
// made once, in a release or in a design that was reviewed.
var faults = []struct{ name, text, instead string }{
	{"a merged entry has the time of its earliest call",
		"        high = start\n",
		"        if low > start + 1 then runs[#runs] = sub(s, HEAD + ENTRY * (start + 1) + 1, " +
			"HEAD + ENTRY * (start + 1) + 7) .. sub(runs[#runs], 8) end high = start\n"},
	{"the log lives and is cut off by the present list", "if now - began >= keep then",
		"keep2, num2 = 0, 0 if true then"},
	{"a cost above the limit passes an unused one", "if cost > n then wait = -1 end",
		"if cost > n and s then wait = -1 end"},
	{"what an override replaces does not count", "if cost > 0 and (", "if cost > 0 and rates > 0 and ("},
	{"a settlement reaches states that did not take the call", "if passed and record then",
		"if passed then reply[4] = 2^(#KEYS - first + 1) - 1 end if passed and record then"},
	{"a refused call lowers the counts", "if passed and record then",
		"for k = first, passed and 0 or #KEYS do local s = texts[k] if s and #s > 70 and not attempts then " +
			"call('SETRANGE', KEYS[k], #s - 5, pack('>I5', (unpack('>I5', s, #s - 4) - 1) % M)) end end " +
			"if passed and record then"},
	{"the newest entry moves", "newest == now and count > 1", "now - newest < 1000000 and count > 1"},
	{"the instant of a call is the server's clock", "local reply, passed, attempts, again = {0, now, ",
		"local reply, passed, attempts, again = {0, clock, "},
	{"a denied attempt does not wait for itself", "not (passed and fits) or kind == 1", "kind == 1"},
	{"a wait counts from the newest entry", "local at = min(time + window, ends) - clock",
		"local at = min(time + window, ends) - now"},
	{"a wait does not know the end of the log", "local at = min(time + window, ends) - clock",
		"local at = time + window - clock"},
	{"a log keeps no more entries than its number", "      cut = base\n",
		"      base = max(base, count - 1 - number)\n      cut = base\n"},
	{"a reset is not asked", "#s, max(now - window, reset)", "#s, now - window"},
	{"a call is settled twice", "call('DEL', record) == 0", "call('DEL', record) == -1"},
	{"what is charged names no window", "if now - began >= keep then",
		"if settles then named = false elseif now - began >= keep then"},
	{"a call older than the log is given back", "HEAD + 1) < at then", "HEAD + 1) < at + 2^50 then"},
	{"a new log does not know where it begins", "now - 1, 0, now, cost", "0, 0, now, cost"},
	{"entries merge too early", "PART * ((sum", "1 * ((sum"},
	{"totals wrap", "local M, REACH = 2^40", "local M, REACH = 2^6"},
	{"a small state ends after one window", "if version == 1 and began + 2 * keep > clock then",
		"if version == 1 and began + (size == SMALL and 1 or 2) * keep > clock then"},
	{"a small state follows a clock that steps back", "if began > now then now = began end",
		"if size ~= SMALL and began > now then now = began end"},
	{"a shadow limit counts what it denies", "passed and (fits or mode % 16 < 8)", "passed"},
	{"an owed cost denies one of 0", "cost <= left or cost == 0\n", "cost <= left\n"},
	{"a refund loses the rest of a bucket's token", "count - (cost - drained), parts + rest",
		"count - (cost - drained), 0"},
	{"a bucket gives back what has drained", "local drained, rest = muldiv((last - at) % window, n, window)",
		"local drained, rest = 0, 0"},
}

// The list of calls finds each fault when it is planted in the scripts.
func TestListFindsPlantedFaults(t *testing.T) {
	tier.Two(t, "plays thousands of histories on a server")
	client := connect(t)
	for i, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			servers := map[sizes]*server{}
			played := 0
			at, problem, h := hunt(*seed, 2000, func(z sizes) engine {
				if servers[z] == nil {
					servers[z] = newServer(t, client, z, f.text, f.instead)
				}
				played++
				s := *servers[z]
				s.prefix = fmt.Sprintf("{%d.%d}", i, played)
				return &s
			})
			if at == 0 {
				t.Fatal("not found")
			}
			t.Logf("history %d: %s (%d operations)", at, problem, len(h.ops))
		})
	}
}
