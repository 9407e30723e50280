package lambda

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Identity of the functions: the account and region of AWS's own examples.
const (
	region  = "us-east-1"
	account = "123456789012"
)

// Config describes a function. Name and Binary are required.
type Config struct {
	Name        string            // the function's name, in its ARN and in front of its log lines
	Binary      string            // path of the built bootstrap
	Env         map[string]string // the function's variables; it inherits none of this program's
	Concurrency int               // maximum number of environments; 0 means 1; see ErrThrottled
	// Warm is the number of environments that Start starts, so that a broken
	// configuration fails at once; at most Concurrency.
	Warm        int
	Timeout     time.Duration // of one invocation; 0 means 3 s, as on Lambda
	InitTimeout time.Duration // of the start of an environment; 0 means 10 s, as on Lambda
	Memory      int           // in MB, given to the function but not enforced; 0 means 128
	NoFreeze    bool          // environments run between invocations
	// Idle is the time without invocations after which an environment ends; 0 means
	// never. Lambda ends idle environments after minutes.
	Idle time.Duration
	Log  io.Writer // gets the function's output line by line; nil drops it
	// Report gets a report of each answered invocation, before its environment takes
	// another one; nil drops it.
	Report func(Report)
}

// Report has the instants of one invocation. The REPORT line of Lambda's log has the
// times between them.
type Report struct {
	PID       int
	Started   time.Time // start of the process
	Delivered time.Time // delivery of the event
	Answered  time.Time // arrival of the answer
	Done      time.Time // the process asked for the next invocation
}

func (c Config) withDefaults() (Config, error) {
	c.Concurrency = cmp.Or(c.Concurrency, 1)
	c.Timeout = cmp.Or(c.Timeout, 3*time.Second)
	c.InitTimeout = cmp.Or(c.InitTimeout, 10*time.Second)
	c.Memory = cmp.Or(c.Memory, 128)
	if c.Log == nil {
		c.Log = io.Discard
	}
	if c.Report == nil {
		c.Report = func(Report) {}
	}
	if err := c.validate(); err != nil {
		return c, err
	}
	binary, err := filepath.Abs(c.Binary)
	c.Binary = binary
	return c, err
}

func (c Config) validate() error {
	switch {
	case c.Name == "":
		return errors.New("name is empty")
	case c.Concurrency < 0 || c.Timeout < 0 || c.InitTimeout < 0 || c.Memory < 0 || c.Idle < 0:
		return errors.New("concurrency, timeouts and memory must not be negative")
	case c.Warm < 0 || c.Warm > c.Concurrency:
		return fmt.Errorf("warm is %d: must be 0 to %d, the concurrency", c.Warm, c.Concurrency)
	}
	for name := range c.Env {
		if reserved(name) {
			return fmt.Errorf("variable %s is reserved for the runtime", name)
		}
	}
	info, err := os.Stat(c.Binary)
	if err == nil && (info.IsDir() || info.Mode()&0o111 == 0) {
		err = fmt.Errorf("%s is not an executable file", c.Binary)
	}
	return err
}

// BinFolder returns the folder where ./scripts/build puts the functions. That is this
// program's own folder, unless go run put the program elsewhere.
func BinFolder() string {
	built := filepath.Join("build", runtime.GOOS+"_"+runtime.GOARCH)
	program, err := os.Executable()
	if err != nil || filepath.Base(filepath.Dir(program)) != filepath.Base(built) {
		return built
	}
	return filepath.Dir(program)
}

// reserved reports whether Lambda refuses a variable of this name.
func reserved(name string) bool {
	return strings.HasPrefix(name, "AWS_LAMBDA_") ||
		slices.Contains([]string{"_HANDLER", "_X_AMZN_TRACE_ID", "AWS_REGION", "AWS_DEFAULT_REGION",
			"AWS_EXECUTION_ENV", "LAMBDA_TASK_ROOT", "LAMBDA_RUNTIME_DIR"}, name)
}

func (c Config) arn() string {
	return fmt.Sprintf("arn:aws:lambda:%s:%s:function:%s", region, account, c.Name)
}

// environ returns the complete environment of a process whose Runtime API listens on api.
// The trace id is not in it: each invocation has it as a header, from which the
// function's runtime sets _X_AMZN_TRACE_ID.
func (c Config) environ(api string) []string {
	env := map[string]string{
		"TZ":   ":UTC",
		"LANG": "en_US.UTF-8",
		"PATH": "/usr/local/bin:/usr/bin:/bin:/opt/bin",
	}
	maps.Copy(env, c.Env)
	maps.Copy(env, map[string]string{
		"AWS_LAMBDA_RUNTIME_API":          api,
		"AWS_LAMBDA_FUNCTION_NAME":        c.Name,
		"AWS_LAMBDA_FUNCTION_VERSION":     "$LATEST",
		"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": strconv.Itoa(c.Memory),
		"AWS_LAMBDA_INITIALIZATION_TYPE":  "on-demand",
		"AWS_REGION":                      region,
		"AWS_DEFAULT_REGION":              region,
		"LAMBDA_TASK_ROOT":                filepath.Dir(c.Binary),
		"_HANDLER":                        "bootstrap",
	})
	var list []string
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	slices.Sort(list)
	return list
}
