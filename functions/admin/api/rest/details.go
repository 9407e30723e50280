package rest

// Details collects what cannot be read of a body.
type Details []Detail

// Add notes an error at a place of the body; nil notes nothing.
func (d *Details) Add(location string, err error) {
	if err != nil {
		*d = append(*d, Detail{Location: "body." + location, Message: Clip(err.Error())})
	}
}

// Err is the answer to what was collected; nil when nothing is wrong.
func (d *Details) Err() error {
	if len(*d) == 0 {
		return nil
	}
	return Unprocessable(*d...)
}
