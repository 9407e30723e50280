package dashboard

// What tests from outside need of the pages: the bounds that they reach.
const (
	KeysPerPage    = keysPerPage
	CallersPerScan = callersPerScan
)
