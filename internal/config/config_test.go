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
	got, problems := Read[settings]([]string{"NAME=x=y", "COUNT=3"})
	if err := problems.Err(); err != nil || got != (settings{5 * time.Second, 3, "x=y"}) {
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
		_, problems := Read[settings](c.variables)
		if err := problems.Err(); err == nil || err.Error() != c.want {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
	got, problems := Read[settings]([]string{"WAIT=soon", "COUNT=3", "NAME=x"})
	problems.Add("WAIT", "is too short")
	problems.Add("COUNT", "is too small")
	problems.AddError(nil)
	if got.Count != 3 || got.Name != "x" || !problems.Has("NAME", "COUNT") || problems.Has("NAME") {
		t.Errorf("%+v, %v", got, problems.Err())
	}
	if text := problems.Err().Error(); strings.Count(text, "WAIT") != 1 ||
		!strings.HasSuffix(text, "\nCOUNT is too small") {
		t.Error(text)
	}
}
