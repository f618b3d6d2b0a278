package crash

import (
	"errors"

	"pistore/conformance"
)

// The stories are short, so that each of their calls can be cut and failed.

func commitStory() story {
	return story{act: func(d *driver) error {
		err := d.create(0)
		if err == nil {
			err = d.commit(0, 12)
		}
		return err
	}}
}

// crowd is a story of commits to several sessions at once.
func (p *probe) crowd() story {
	if p.cfg.Sessions < 2 {
		p.skipf("Config.Sessions is %d: there are no several sessions at once", p.cfg.Sessions)
	}
	return story{act: func(d *driver) error {
		return d.atOnce(p.cfg.Sessions, func(d *driver, i int) error {
			err := d.create(i)
			if err == nil {
				err = d.commit(i, 8)
			}
			return err
		})
	}}
}

// grown makes a session of n commits, which no power cut takes any more if the
// store can see to that.
func grown(i, n int) func(d *driver) error {
	return func(d *driver) error {
		err := d.create(i)
		if err == nil {
			err = d.commit(i, n)
		}
		if err == nil {
			err = d.sync(i)
		}
		if errors.Is(err, errLacks) {
			return nil
		}
		return err
	}
}

func compactionStory() story {
	return story{before: grown(0, 10), act: func(d *driver) error {
		err := d.resume(0)
		if err == nil {
			err = d.commit(0, 2)
		}
		if err == nil {
			err = d.compact(0)
		}
		if err == nil {
			err = d.commit(0, 2)
		}
		return err
	}}
}

// reopenStory opens what is there, twice.
func reopenStory() story {
	return story{opening: true, before: grown(0, 6), act: func(d *driver) error {
		for range 2 {
			err := d.resume(0)
			if err == nil {
				err = d.commit(0, 2)
			}
			if err == nil {
				err = d.close(0)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}}
}

func syncStory() story {
	return story{before: grown(0, 3), act: func(d *driver) error {
		err := d.resume(0)
		for n := 0; n < 3 && err == nil; n++ {
			if err = d.commit(0, 3); err == nil {
				err = d.sync(0)
			}
		}
		return err
	}}
}

// namesStory makes sessions and deletes one.
func namesStory(c Config) story {
	return story{before: grown(0, 3), act: func(d *driver) error {
		err := d.create(1)
		if err == nil {
			err = d.commit(1, 2)
		}
		if err == nil {
			err = d.create(2)
		}
		if err == nil && !c.lacks(conformance.NoDelete) {
			if err = d.delete(0); err == nil {
				err = d.close(1)
			}
			if err == nil {
				err = d.delete(1)
			}
		}
		return err
	}}
}

func loadStory() story {
	return story{before: grown(0, 3), act: func(d *driver) error {
		err := d.load(1, 9)
		if err == nil {
			err = d.load(2, 1)
		}
		return err
	}}
}

func rewriteStory() story {
	return story{before: grown(0, 9), act: func(d *driver) error { return d.rewrite(0, 9) }}
}
