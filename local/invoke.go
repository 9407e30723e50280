//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"tidegate/local/gateway"
	"tidegate/local/lambda"
)

// invokeAPI serves Lambda's Invoke API for functions by name, so that programs make direct
// calls as they do on AWS: an SDK whose endpoint is its address. It asks for no signature.
// A name may have the stage before it, or be an ARN.
func invokeAPI(functions map[string]gateway.Invoker) http.Handler {
	mux := http.NewServeMux()
	const pattern = "POST /2015-03-31/functions/{name}/invocations"
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("name")
		name = name[strings.LastIndexAny(name, ":-")+1:]
		f, found := functions[name]
		if !found {
			refuseInvoke(w, http.StatusNotFound, "ResourceNotFoundException", "Function not found: "+name)
			return
		}
		payload, err := io.ReadAll(http.MaxBytesReader(w, r.Body, lambda.MaxPayload))
		if err != nil {
			refuseInvoke(w, http.StatusRequestEntityTooLarge, "RequestTooLargeException",
				"the payload is too large")
			return
		}
		switch kind := r.Header.Get("X-Amz-Invocation-Type"); kind {
		case "", "RequestResponse":
			invoke(w, r, f, payload)
		case "DryRun":
			w.WriteHeader(http.StatusNoContent)
		default:
			refuseInvoke(w, http.StatusBadRequest, "InvalidParameterValueException",
				"X-Amz-Invocation-Type must be RequestResponse or DryRun here")
		}
	})
	return mux
}

func invoke(w http.ResponseWriter, r *http.Request, f gateway.Invoker, payload []byte) {
	answer, err := f.Invoke(r.Context(), payload)
	var failed *lambda.FunctionError
	switch {
	case errors.Is(err, lambda.ErrThrottled):
		refuseInvoke(w, http.StatusTooManyRequests, "TooManyRequestsException", "Rate Exceeded.")
		return
	case errors.As(err, &failed):
	case err != nil:
		failed = &lambda.FunctionError{Type: "Runtime.ExitError", Message: err.Error()}
	}
	w.Header().Set("X-Amz-Executed-Version", "$LATEST")
	if failed != nil {
		w.Header().Set("X-Amz-Function-Error", "Unhandled")
		answer, _ = json.Marshal(failed) // texts always encode
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer) // fails only after the client disconnected
}

func refuseInvoke(w http.ResponseWriter, status int, kind, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Amzn-Errortype", kind)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"Type": "User", "Message": message})
}
