package sanitize

import "strings"

// wordBefore returns the index of the word among words that ends in the reach
// bytes before t[i], the nearest first, or -1. Case does not matter, and a
// capital begins a word as in "userPhone".
func wordBefore(t string, i, reach int, words []string) int {
	for k, low := i, max(0, i-reach); k > low; {
		end := k
		for end > low && !isLetter(t[end-1]) {
			end--
		}
		first := end
		for first > 0 && end-first < 24 && isLetter(t[first-1]) {
			first--
			if isUpper(t[first]) && first > 0 && !isUpper(t[first-1]) {
				break
			}
		}
		if first == end {
			return -1
		}
		if n := indexFold(t[afterEscape(t, first, end):end], words); n >= 0 {
			return n
		}
		k = first
	}
	return -1
}

// wordAfter returns the index of the word among words that begins in the reach
// bytes from t[i] on, or -1.
func wordAfter(t string, i, reach int, words []string) int {
	for k, high := i, min(len(t), i+reach); k < high; {
		if !isLetter(t[k]) {
			k++
			continue
		}
		end := k
		for end < len(t) && end-k < 24 && isLetter(t[end]) {
			end++
		}
		if n := indexFold(t[k:end], words); n >= 0 {
			return n
		}
		k = end
	}
	return -1
}

// indexFold returns the index of word in words, or -1. Case does not matter.
func indexFold(word string, words []string) int {
	for n, w := range words {
		if len(word) == len(w) && strings.EqualFold(word, w) {
			return n
		}
	}
	return -1
}
