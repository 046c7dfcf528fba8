#include "flash.h"

// Whether the line is there; in any case it is afterwards, as the one last read.
static int touch(sh_lines *cache, uint32_t line)
{
    uint32_t i = 0;
    while (i < cache->count && cache->lines[i] != line) {
        i++;
    }
    int found = i < cache->count;
    if (!found && cache->count < cache->size) {
        cache->count++;
    } else if (!found) {
        i--;
    }
    for (; i > 0; i--) {
        cache->lines[i] = cache->lines[i - 1];
    }
    cache->lines[0] = line;
    return found;
}

static int holds(const sh_flash *flash, uint32_t address)
{
    return address - flash->first < flash->bytes;
}

uint32_t sh_flash_code(sh_flash *flash, uint32_t first, uint32_t end, uint32_t cycles)
{
    if (!holds(flash, first)) {
        return 0;
    }
    uint32_t line = first / flash->line_bytes, past = (end - 1) / flash->line_bytes + 1;
    uint32_t share = cycles / (past - line), waits = 0;
    for (; line < past; line++) {
        uint32_t next = flash->prefetch && line == flash->last + 1;
        uint32_t hidden = next ? flash->last_cycles : 0;
        if (line == flash->last) {
            flash->last_cycles += share;
            continue;
        }
        if (!touch(&flash->code, line) && hidden < flash->wait_states) {
            waits += flash->wait_states - hidden;
        }
        flash->last = line;
        flash->last_cycles = share;
    }
    return waits;
}

uint32_t sh_flash_data(sh_flash *flash, uint32_t address)
{
    if (!holds(flash, address) || touch(&flash->data, address / flash->line_bytes)) {
        return 0;
    }
    return flash->wait_states;
}
