// What interrupts right behind an atomic section: see `!` in runtime.c.
void interrupted(void);

#define MICROPY_BEGIN_ATOMIC_SECTION() (0)
#define MICROPY_END_ATOMIC_SECTION(state) interrupted()
