package config

import (
	"strings"
	"testing"
	"time"
)

type settings struct {
	Wait  time.Duration `env:"WAIT" envDefault:"5s"`
	Count int           `env:"COUNT"`
	Name  string        `env:"NAME,required,notEmpty"`
}

func TestRead(t *testing.T) {
	got, wrong := Read[settings]([]string{"NAME=x=y", "COUNT=3"})
	if err := wrong.Err(); err != nil || got != (settings{5 * time.Second, 3, "x=y"}) {
		t.Errorf("got %+v, %v", got, err)
	}
}

// Every variable that cannot be read is named once, with what is wrong, and the others
// are read.
func TestProblems(t *testing.T) {
	for name, c := range map[string]struct {
		variables []string
		want      string
	}{
		"unset": {[]string{"WAIT=1s"}, "NAME is not set"},
		"empty": {[]string{"NAME="}, "NAME is empty"},
		"number": {[]string{"NAME=x", "COUNT=many"},
			`COUNT cannot be read: strconv.ParseInt: parsing "many": invalid syntax`},
		"several": {
			[]string{"WAIT=soon", "COUNT=many"},
			`WAIT cannot be read: unable to parse duration: time: invalid duration "soon"` + "\n" +
				`COUNT cannot be read: strconv.ParseInt: parsing "many": invalid syntax` +
				"\nNAME is not set",
		},
	} {
		_, wrong := Read[settings](c.variables)
		if err := wrong.Err(); err == nil || err.Error() != c.want {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
	got, wrong := Read[settings]([]string{"WAIT=soon", "COUNT=3", "NAME=x"})
	wrong.Add("WAIT", "is too short")
	wrong.Add("COUNT", "is too small")
	wrong.AddError(nil)
	if got.Count != 3 || got.Name != "x" || !wrong.Has("NAME", "COUNT") || wrong.Has("NAME") {
		t.Errorf("%+v, %v", got, wrong.Err())
	}
	if text := wrong.Err().Error(); strings.Count(text, "WAIT") != 1 ||
		!strings.HasSuffix(text, "\nCOUNT is too small") {
		t.Error(text)
	}
}
