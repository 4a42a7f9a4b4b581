package sanitize

import (
	"testing"
	"time"
)

// TestLinear doubles hostile texts up to 64 KiB: the time may grow 2.3-fold at
// most. A slow measurement is taken again, because other work disturbs it.
func TestLinear(t *testing.T) {
	sizes := []int{4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10}
	texts := map[string][]string{}
	for _, n := range sizes {
		for name, text := range hostile(n) {
			texts[name] = append(texts[name], text)
		}
	}
	for name, grown := range texts {
		for k := 1; k < len(grown); k++ {
			var small, large time.Duration
			for range 8 {
				small, large = fastest(grown[k-1]), fastest(grown[k])
				if large*10 <= small*23 {
					break
				}
			}
			if large*10 > small*23 && large > 20*time.Microsecond {
				t.Errorf("%s: %d bytes take %v, %d bytes %v", name, sizes[k-1], small, sizes[k], large)
			}
		}
	}
}

// fastest returns the least time that Clean took of text.
func fastest(text string) time.Duration {
	least := time.Hour
	for range 10 {
		start := time.Now()
		Clean(text)
		least = min(least, time.Since(start))
	}
	return least
}

// TestAllocations holds clean text to no allocation.
func TestAllocations(t *testing.T) {
	text := cleanText(300)
	if n := testing.AllocsPerRun(100, func() { Clean(text) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
