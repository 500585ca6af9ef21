// Marks everything that belongs to the kernel under the pointer or the keyboard's focus.
(function () {
  function mark(event) {
    var from = event.target.closest("[data-kernel]");
    var numbers = from ? from.dataset.kernel.split(" ") : [];
    document.querySelectorAll("[data-kernel]").forEach(function (other) {
      var same = other.dataset.kernel.split(" ").some(function (n) { return numbers.includes(n); });
      other.classList.toggle("same", same);
    });
  }
  document.addEventListener("mouseover", mark);
  document.addEventListener("focusin", mark);
})();
