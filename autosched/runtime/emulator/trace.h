// Counting of memory transactions (traced mode). The model is documented in trace.py.
//
// The threads of a warp run one after another, so what the hardware would issue as one instruction is put
// together afterwards: accesses with equal warp, site and iteration are one request, each lane once. A lane
// that comes back to a site within one iteration starts a further request.

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

// Distinct elements, by block and over all blocks.
struct Footprint {
    as_i64 min = 0, sum = 0, max = 0;
    std::vector<as_i64> block, total;

    static void make_unique(std::vector<as_i64>& elements) {
        if (!std::is_sorted(elements.begin(), elements.end())) std::sort(elements.begin(), elements.end());
        elements.erase(std::unique(elements.begin(), elements.end()), elements.end());
    }

    void end_block(bool first_block) {
        make_unique(block);
        as_i64 size = (as_i64)block.size();
        min = first_block ? size : std::min(min, size);
        sum += size;
        max = std::max(max, size);
        total.insert(total.end(), block.begin(), block.end());
        if (total.size() > 2 * compacted_ + 65536) compact();
        block.clear();
    }

    void merge(Footprint& other, bool first) {
        min = first ? other.min : std::min(min, other.min);
        sum += other.sum;
        max = std::max(max, other.max);
        total.insert(total.end(), other.total.begin(), other.total.end());
    }

    void compact() {
        make_unique(total);
        compacted_ = total.size();
    }

private:
    size_t compacted_ = 0;
};

struct SiteCounts {
    as_i64 requests = 0, active_lanes = 0, sectors = 0, wavefronts = 0, conflicts = 0;
    int bytes = 0, length = 1, parameter = -1;
    bool shared = false;
    Footprint footprint;
};

class TraceCollector {
public:
    TraceCollector(int sites, int parameters, unsigned warps)
        : warps_(warps), sites_(sites), parameters_(parameters), accesses_((size_t)sites * warps) {}

    void record(unsigned thread, int site, unsigned iteration, int space, int parameter, int bytes, as_i64 element,
                int length) {
        SiteCounts& counts = sites_[site];
        counts.bytes = bytes;
        counts.length = length;
        counts.parameter = parameter;
        counts.shared = space == AS_SHARED;
        std::vector<Access>& accesses = accesses_[(size_t)site * warps_ + thread / AS_WARP_SIZE];
        accesses.push_back({iteration, thread % AS_WARP_SIZE, element});
    }

    // The id of (outer, value), the same for every thread: ids name the tuple of loop counters exactly.
    unsigned iteration(unsigned outer, as_i64 value) {
        auto entry = iterations_.insert({{outer, value}, (unsigned)iterations_.size() + 1});
        return entry.first->second;
    }

    // All threads have passed a barrier or ended: every request recorded so far is complete.
    void end_interval() {
        for (size_t i = 0; i < accesses_.size(); i++) {
            std::vector<Access>& accesses = accesses_[i];
            auto by_iteration = [](const Access& a, const Access& b) { return a.iteration < b.iteration; };
            // Stable: a lane that comes back to the site keeps its order.
            if (!std::is_sorted(accesses.begin(), accesses.end(), by_iteration))
                std::stable_sort(accesses.begin(), accesses.end(), by_iteration);
            for (auto begin = accesses.begin(), end = begin; begin != accesses.end(); begin = end) {
                end = std::upper_bound(begin, accesses.end(), *begin, by_iteration);
                count_requests(sites_[i / warps_], begin, end);
            }
            accesses.clear();
        }
    }

    void end_block() {
        end_interval();
        iterations_.clear();
        for (SiteCounts& site : sites_) {
            Footprint::make_unique(site.footprint.block);
            if (site.parameter >= 0) {
                std::vector<as_i64>& of_buffer = parameters_[site.parameter].block;
                of_buffer.insert(of_buffer.end(), site.footprint.block.begin(), site.footprint.block.end());
            }
            site.footprint.end_block(blocks_ == 0);
        }
        for (Footprint& parameter : parameters_) parameter.end_block(blocks_ == 0);
        blocks_++;
    }

    void merge(TraceCollector& other) {
        if (other.blocks_ == 0) return;
        for (size_t i = 0; i < sites_.size(); i++) {
            SiteCounts &to = sites_[i], &from = other.sites_[i];
            to.requests += from.requests;
            to.active_lanes += from.active_lanes;
            to.sectors += from.sectors;
            to.wavefronts += from.wavefronts;
            to.conflicts += from.conflicts;
            to.bytes = std::max(to.bytes, from.bytes);
            to.footprint.merge(from.footprint, blocks_ == 0);
        }
        for (size_t i = 0; i < parameters_.size(); i++) parameters_[i].merge(other.parameters_[i], blocks_ == 0);
        blocks_ += other.blocks_;
    }

    // Nine numbers a site and four a parameter, in the order that native.py names.
    void write(as_i64* site_counts, as_i64* parameter_counts) {
        for (SiteCounts& site : sites_) {
            const as_i64 counts[] = {site.requests, site.active_lanes, site.sectors, site.wavefronts, site.conflicts};
            site_counts = std::copy(std::begin(counts), std::end(counts), site_counts);
            site_counts = write_footprint(site.footprint, site.bytes, site_counts);
        }
        // A parameter's element size is applied by the caller, who knows its type.
        for (Footprint& parameter : parameters_) parameter_counts = write_footprint(parameter, 1, parameter_counts);
    }

private:
    struct Access {
        unsigned iteration, lane;
        as_i64 element;
    };

    static as_i64* write_footprint(Footprint& footprint, as_i64 bytes, as_i64* out) {
        footprint.compact();
        const as_i64 values[] = {footprint.min, footprint.sum, footprint.max, (as_i64)footprint.total.size()};
        for (as_i64 value : values) *out++ = value * bytes;
        return out;
    }

    // One request: the first element each of the active lanes accesses; a vector lies within one sector.
    struct Request {
        as_i64 elements[AS_WARP_SIZE];
        unsigned active = 0;

        bool is_active(unsigned lane) const { return active >> lane & 1; }
    };

    // [begin, end) share warp, site and iteration. Each pass takes the first access of every lane, moves to
    // the front what a lane has left over, and counts those taken as one request.
    void count_requests(SiteCounts& site, std::vector<Access>::iterator begin, std::vector<Access>::iterator end) {
        while (begin != end) {
            Request request;
            auto rest = begin;
            for (auto access = begin; access != end; ++access) {
                if (request.is_active(access->lane)) {
                    *rest++ = *access;
                } else {
                    request.elements[access->lane] = access->element;
                    request.active |= 1u << access->lane;
                }
            }
            end = rest;
            count_request(site, request);
        }
    }

    void count_request(SiteCounts& site, const Request& request) {
        site.requests++;
        site.active_lanes += __builtin_popcount(request.active);
        if (site.shared) {
            // Up to four bytes a lane the whole warp goes at once; with 8, each half-warp on its own, with 16 each
            // quarter.
            unsigned lanes_at_once = AS_WARP_SIZE * 4 / std::max(4, site.bytes * site.length);
            for (unsigned lane = 0; lane < AS_WARP_SIZE; lane += lanes_at_once) {
                as_i64 wavefronts = shared_wavefronts(request, site.bytes, lane, lane + lanes_at_once);
                site.wavefronts += wavefronts;
                site.conflicts += std::max<as_i64>(wavefronts - 1, 0);
            }
        } else {
            site.sectors += global_sectors(request, site.bytes);
        }
        for (unsigned lane = 0; lane < AS_WARP_SIZE; lane++)
            for (int k = 0; k < site.length && request.is_active(lane); k++)
                site.footprint.block.push_back(request.elements[lane] + k);
    }

    as_i64 global_sectors(const Request& request, int bytes) {
        keys_.clear();
        for (unsigned lane = 0; lane < AS_WARP_SIZE; lane++)
            if (request.is_active(lane)) keys_.push_back(request.elements[lane] * bytes / 32);
        Footprint::make_unique(keys_);
        return (as_i64)keys_.size();
    }

    // The most distinct words any one of the 32 banks has to deliver to the lanes [from, to).
    as_i64 shared_wavefronts(const Request& request, int bytes, unsigned from, unsigned to) {
        keys_.clear();
        for (unsigned lane = from; lane < to; lane++) {
            if (!request.is_active(lane)) continue;
            // Further words of 8 and 16 bytes are left out: their banks are as full as the first one's.
            keys_.push_back(request.elements[lane] * bytes / 4);
        }
        Footprint::make_unique(keys_);
        as_i64 words[32] = {}, most = 0;
        for (as_i64 word : keys_) most = std::max(most, ++words[word % 32]);
        return most;
    }

    unsigned warps_;
    std::vector<SiteCounts> sites_;
    std::vector<Footprint> parameters_;
    std::vector<std::vector<Access>> accesses_;  // of the current interval, by site and warp
    std::vector<as_i64> keys_;
    std::map<std::pair<unsigned, as_i64>, unsigned> iterations_;
    as_i64 blocks_ = 0;
};
