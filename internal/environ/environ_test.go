package environ

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
	got, err := Read[settings]([]string{"NAME=x=y", "COUNT=3"})
	if err != nil || got != (settings{5 * time.Second, 3, "x=y"}) {
		t.Errorf("got %+v, %v", got, err)
	}
	_, err = Read[settings]([]string{"WAIT=soon", "COUNT=many"})
	for _, name := range []string{"WAIT", "COUNT", "NAME"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want it to name %s", err, name)
		}
	}
}
