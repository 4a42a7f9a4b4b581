package sanitize

// Error returns the sanitised message of err, the empty Text for nil.
func (z *Sanitizer) Error(err error) Text {
	if err == nil {
		return Text{}
	}
	return z.Clean(err.Error())
}
