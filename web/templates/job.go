package templates

// JobPage shows how far a change of many keys is.
type JobPage struct {
	Page     Page
	Heading  string
	Of       string
	Done     string
	Skipped  string
	Known    bool // how many there are in all
	Progress string
	Total    string
	Failed   []string // ids
	Finished bool
	Form     *Form // goes on; nil when it is finished
	Back     string
}
