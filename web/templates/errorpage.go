package templates

// ErrorPage says what went wrong and what to do.
type ErrorPage struct {
	Page    Page
	Status  string // 404
	Heading string
	Advice  string
	Action  Choice // the way on; its Text is empty if there is none
}
